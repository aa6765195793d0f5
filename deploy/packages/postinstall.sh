#!/bin/sh
# Makes the user and tells systemd of the units. It starts nothing: the configuration is yours.
# DPKG_ROOT is the folder of a system that is installed into, and empty on the running one.
set -e
if command -v systemd-sysusers >/dev/null; then
  systemd-sysusers ${DPKG_ROOT:+--root="$DPKG_ROOT"} powerbox.conf
elif ! grep -q '^powerbox:' "$DPKG_ROOT/etc/passwd"; then
  useradd ${DPKG_ROOT:+--prefix "$DPKG_ROOT"} --system --user-group --no-create-home --home-dir /var/lib/powerbox --shell /usr/sbin/nologin powerbox
fi
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
