"""Documents that people write, and the ones this product writes back to them: properties, options, policies, job specs, reports."""
