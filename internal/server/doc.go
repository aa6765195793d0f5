// Package server puts the issuer behind HTTP: the answers to the extension's
// methods, what a gateway in the same process needs of the issuer, and the
// operator's interface under /v1.
package server
