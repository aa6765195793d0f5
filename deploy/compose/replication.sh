#!/bin/bash
# Runs once, when the primary is made: who may follow it, and how.
set -euo pipefail
cat >> "$PGDATA/pg_hba.conf" <<'EOF'
hostssl replication powerbox samenet scram-sha-256
EOF
