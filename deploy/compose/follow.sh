#!/bin/bash
# The standby: copies the primary once, and follows it. What it was promoted to be it stays.
set -euo pipefail
PGPASSWORD=$(cat /run/secrets/postgres.password)
export PGPASSWORD
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  rm -rf "$PGDATA"
  until pg_basebackup -D "$PGDATA" -R -X stream -c fast \
    -d "host=primary user=powerbox application_name=standby sslmode=verify-full sslrootcert=/run/secrets/postgres-ca.pem"; do
    rm -rf "$PGDATA"
    sleep 2
  done
  chmod 0700 "$PGDATA"
fi
exec postgres "$@"
