// Package openapi reads an OpenAPI 3 document as the offer of an Agent Auth provider.
// Each operation is one capability, with the JSON Schema of its arguments and the place
// that each argument has in the request.
//
// Its laws: an operation whose request cannot be made exactly is left out, with the
// reason, and never guessed at; nothing outside of the document is fetched; every
// argument has one name and one place.
package openapi
