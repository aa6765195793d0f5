// Package openfga tests the source of resources against OpenFGA itself, which runs in the
// process of the tests. It is a separate module, so that no other one has OpenFGA's
// dependencies.
package openfga
