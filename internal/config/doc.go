// Package config reads powerbox.yaml, the files that it includes, and the environment variables
// that override them, into one typed and checked [Config].
//
//   - Options are declared once, as struct fields. Decoding, defaults, names of environment
//     variables, docs/reference/configuration.md and the JSON Schema are derived from them.
//   - An unknown name is refused, with the nearest known one. All problems are reported together,
//     each with file, line and a correction.
//   - Only [Secret.Reveal] shows a secret.
package config
