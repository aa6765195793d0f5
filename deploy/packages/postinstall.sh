#!/bin/sh
# Makes the user and tells systemd of the units. It starts nothing: the configuration is yours.
set -e
if command -v systemd-sysusers >/dev/null; then
  systemd-sysusers powerbox.conf
elif ! getent passwd powerbox >/dev/null; then
  useradd --system --user-group --no-create-home --home-dir /var/lib/powerbox --shell /usr/sbin/nologin powerbox
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
