#!/usr/bin/env bash
# Installs the servers that tests start (see tests/servers), each in its pinned version, into build/servers. What is there stays.
# Needs Go 1.24 or newer, npm with Node 20 or newer, and Python.
set -euo pipefail
folder=${1:?folder}
python=${2:?python}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

is_installed() { [ -e "$folder/.$1" ]; }
installed() { touch "$folder/.$1"; }

# S3, with real credentials and atomic conditional writes
if ! is_installed versitygw-1.8.0; then
  GOBIN="$folder" GOFLAGS=-p=2 nice go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
  installed versitygw-1.8.0
fi
# S3, where keys need not map to files; behind a translator, Google Cloud Storage. Its libraries are not those of this project, so it has an environment of its own.
if ! is_installed moto-5.2.5; then
  "$python" -m venv --clear "$folder/moto"
  "$folder/moto/bin/python" -m pip install --quiet --disable-pip-version-check 'moto[server]==5.2.5'
  installed moto-5.2.5
fi
# Azure Blob Storage
if ! is_installed azurite-3.37.0; then
  nice npm install --silent --no-fund --no-audit --prefix "$folder/azurite" azurite@3.37.0
  installed azurite-3.37.0
fi
