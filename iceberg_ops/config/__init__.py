"""Documents that people write, and documents that this product writes: properties, options, policies, job specs, reports."""
