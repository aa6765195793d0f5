// Package config reads powerbox.yaml: one file, with whatever it includes and
// the environment over it, as one typed and checked [Config].
//
// What it holds to:
//
//   - The struct types are the one declaration: decoding, defaults, environment
//     names, docs/reference/configuration.md and the published JSON Schema follow from
//     them.
//   - Anything that is unknown is refused with the nearest known name; every problem is
//     reported at once, each with file and line and what would be right.
//   - Only [Secret.Reveal] shows a secret.
package config
