-- One server, two databases: Airflow's own (made by the image from POSTGRES_DB) and the Iceberg catalog's.
CREATE DATABASE iceberg;
