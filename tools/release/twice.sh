#!/usr/bin/env bash
# Builds the release of the current commit in two new folders, and compares every artifact.
set -euo pipefail
root=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
for name in one a/longer/two; do
  git clone --quiet --no-hardlinks "$root" "$work/$name"
  (cd "$work/$name/tools/release" && GOCACHE="$work/$name.cache" go run . "$@")
done
diff -r "$work/one/dist" "$work/a/longer/two/dist"
echo "both builds have the same bytes:"
cat "$work/one/dist/SHA256SUMS"
