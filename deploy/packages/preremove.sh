#!/bin/sh
# Stops the units when the package is removed, and leaves them running for an upgrade.
set -e
case "$1" in
  remove | 0)
    if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
      systemctl --no-reload disable --now powerbox.service powerbox-gateway.service powerbox-relay.service
    fi
    ;;
esac
