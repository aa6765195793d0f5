// Package eddsa checks Ed25519 signatures. The whole product has one rule for
// them, that of crypto/ed25519: the equation without cofactor, S below the order
// of the base point, R compared as bytes. This package answers as crypto/ed25519
// does for every key, message and signature, in two thirds of the time. It never
// sees a private key.
//
// # Tables
//
// With its 32nd use a key gets a table of multiples of its inverse, so that a check
// needs no doublings. A check then takes 18.5 us instead of 27. A table costs 40 KiB
// and the time of about ten uses, so a process has at most 256 of them. The check in
// this package follows RFC 8032, section 5.1.7, with the same rule as all others,
// and the same tests compare it with crypto/ed25519. Signing stays with
// crypto/ed25519, because the library must never hold a secret (ADR 136).
package eddsa

import (
	"sync/atomic"

	"github.com/oasisprotocol/curve25519-voi/primitives/ed25519"
)

// The lengths of a public key and of a signature, in bytes.
const (
	PublicKeySize = ed25519.PublicKeySize
	SignatureSize = ed25519.SignatureSize
)

// rule is that of crypto/ed25519. It does not allow signatures to be checked in
// batches: a crafted one would pass or fail by its neighbours (ADR 136).
var rule = &ed25519.Options{Verify: ed25519.VerifyOptionsStdLib}

// Verify reports whether signature is one of message under public. A key or a
// signature of another length is a false answer.
func Verify(public, message, signature []byte) bool {
	return len(public) == PublicKeySize && ed25519.VerifyWithOptions(public, message, signature, rule)
}

// Key is a public key that is kept because it may be used again. From its second
// use on it is kept in a form that takes 1.5 KiB more and verifies faster; working
// that out for a key that is used once would cost more than it saves. One that goes
// on being used gets a table of 40 KiB, with which it verifies in two thirds of that
// time, while fewer than 256 keys of the process have one. It is safe for use by
// several goroutines. The zero Key is all zeros.
type Key struct {
	public   [PublicKeySize]byte
	uses     atomic.Uint32 // counted until there is a table
	expanded atomic.Pointer[ed25519.ExpandedPublicKey]
	table    atomic.Pointer[table]
}

// NewKey returns the key of those bytes, which need not be a point of the curve.
func NewKey(public [PublicKeySize]byte) *Key { return &Key{public: public} }

// Verify reports whether signature is one of message under k.
func (k *Key) Verify(message, signature []byte) bool {
	if t := k.table.Load(); t != nil {
		return t.verify(message, signature)
	}
	k.learn(k.uses.Add(1))
	if known := k.expanded.Load(); known != nil {
		return ed25519.VerifyExpandedWithOptions(known, message, signature, rule)
	}
	return Verify(k.public[:], message, signature)
}

// learn works out what pays at some use of k.
func (k *Key) learn(use uint32) {
	switch {
	case use == 2:
		if known, err := ed25519.NewExpandedPublicKey(k.public[:]); err == nil {
			k.expanded.Store(known)
		}
	case use%tableEvery == 0:
		if t := placed(k.public); t != nil {
			k.table.Store(t)
		}
	}
}
