// Command powerbox-pkcs11 keeps signing keys in a token of PKCS#11, such as a hardware
// security module or SoftHSM. It needs a C compiler, since modules of PKCS#11 are libraries
// of C.
package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/miekg/pkcs11"

	"github.com/powerbox-project/powerbox/integrations/keys"
)

func main() {
	module := flag.String("module", "", "`library` of the token, such as /usr/lib/softhsm/libsofthsm2.so")
	label := flag.String("token", "", "`label` of the token")
	pin := flag.String("pin-file", "", "`file` with the PIN of the user")
	keys.Main(func() error { return run(*module, *label, *pin) })
}

func run(module, label, pinFile string) error {
	if module == "" || label == "" || pinFile == "" {
		return errors.New("want --module LIBRARY --token LABEL --pin-file FILE")
	}
	pin, err := os.ReadFile(pinFile) //nolint:gosec // the operator names it
	if err != nil {
		return err
	}
	t, err := open(module, label, strings.TrimSpace(string(pin)))
	if err != nil {
		return err
	}
	return keys.Serve(context.Background(), os.Stdin, os.Stdout, t)
}

// sessions is how many operations the token works on at once.
const sessions = 8

// hsm is a token with sessions that are logged in.
type hsm struct {
	module *pkcs11.Ctx
	free   chan pkcs11.SessionHandle
}

func open(module, label, pin string) (*hsm, error) {
	p := pkcs11.New(module)
	if p == nil {
		return nil, fmt.Errorf("%s is no library of PKCS#11", module)
	}
	if err := p.Initialize(); err != nil {
		return nil, err
	}
	slot, err := slotOf(p, label)
	if err != nil {
		return nil, err
	}
	t := &hsm{p, make(chan pkcs11.SessionHandle, sessions)}
	for n := range sessions {
		s, err := p.OpenSession(slot, pkcs11.CKF_SERIAL_SESSION|pkcs11.CKF_RW_SESSION)
		if err == nil && n == 0 { // the sessions of a process are logged in together
			err = p.Login(s, pkcs11.CKU_USER, pin)
		}
		if err != nil {
			return nil, err
		}
		t.free <- s
	}
	return t, nil
}

func slotOf(p *pkcs11.Ctx, label string) (uint, error) {
	slots, err := p.GetSlotList(true)
	if err != nil {
		return 0, err
	}
	for _, slot := range slots {
		if info, err := p.GetTokenInfo(slot); err == nil && info.Label == label {
			return slot, nil
		}
	}
	return 0, fmt.Errorf("there is no token with the label %q", label)
}

// with lends a session.
func (t *hsm) with(ctx context.Context, do func(pkcs11.SessionHandle) error) error {
	select {
	case s := <-t.free:
		defer func() { t.free <- s }()
		return do(s)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Names of PKCS#11 3.0 that the package does not have: CKK_EC_EDWARDS, CKM_EC_EDWARDS_KEY_PAIR_GEN, CKM_EDDSA.
const ckkEdwards, ckmEdwardsPair, ckmEdDSA = 0x40, 0x1055, 0x1057

// kind says how keys of an algorithm are made, and how they sign.
type kind struct {
	keyType, make, sign uint
	parameters          []byte // CKA_EC_PARAMS
}

var kinds = map[string]kind{
	keys.Ed25519: {ckkEdwards, ckmEdwardsPair, ckmEdDSA, append([]byte{0x13, 12}, "edwards25519"...)},
	keys.ES256:   {pkcs11.CKK_EC, pkcs11.CKM_EC_KEY_PAIR_GEN, pkcs11.CKM_ECDSA, []byte{0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07}},
}

// Algorithms implements [keys.Store].
func (t *hsm) Algorithms() []string { return []string{keys.Ed25519, keys.ES256} }

// Create implements [keys.Store]: a key that the token does not give away. Its reference
// is the CKA_ID of both halves.
func (t *hsm) Create(ctx context.Context, name, algorithm string) (string, error) {
	k, ok := kinds[algorithm]
	if !ok {
		return "", fmt.Errorf("keys are not made for %q", algorithm)
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	shared := func(more ...*pkcs11.Attribute) []*pkcs11.Attribute {
		return append(more, pkcs11.NewAttribute(pkcs11.CKA_TOKEN, true), pkcs11.NewAttribute(pkcs11.CKA_KEY_TYPE, k.keyType),
			pkcs11.NewAttribute(pkcs11.CKA_ID, id), pkcs11.NewAttribute(pkcs11.CKA_LABEL, "powerbox "+name))
	}
	public := shared(pkcs11.NewAttribute(pkcs11.CKA_VERIFY, true), pkcs11.NewAttribute(pkcs11.CKA_EC_PARAMS, k.parameters))
	private := shared(pkcs11.NewAttribute(pkcs11.CKA_SIGN, true), pkcs11.NewAttribute(pkcs11.CKA_PRIVATE, true),
		pkcs11.NewAttribute(pkcs11.CKA_SENSITIVE, true), pkcs11.NewAttribute(pkcs11.CKA_EXTRACTABLE, false))
	err := t.with(ctx, func(s pkcs11.SessionHandle) error {
		_, _, err := t.module.GenerateKeyPair(s, []*pkcs11.Mechanism{pkcs11.NewMechanism(k.make, nil)}, public, private)
		return err
	})
	return hex.EncodeToString(id), err
}

// find returns the half of a key.
func (t *hsm) find(s pkcs11.SessionHandle, class uint, key string) (pkcs11.ObjectHandle, error) {
	id, err := hex.DecodeString(key)
	if err != nil {
		return 0, fmt.Errorf("%q is no CKA_ID in hexadecimal", key)
	}
	if err := t.module.FindObjectsInit(s, []*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_CLASS, class), pkcs11.NewAttribute(pkcs11.CKA_ID, id)}); err != nil {
		return 0, err
	}
	found, _, err := t.module.FindObjects(s, 2)
	if err = errors.Join(err, t.module.FindObjectsFinal(s)); err != nil {
		return 0, err
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("the token has %d keys of that id; want 1", len(found))
	}
	return found[0], nil
}

// Public implements [keys.Store].
func (t *hsm) Public(ctx context.Context, key string) (public crypto.PublicKey, err error) {
	err = t.with(ctx, func(s pkcs11.SessionHandle) error {
		object, err := t.find(s, pkcs11.CKO_PUBLIC_KEY, key)
		if err != nil {
			return err
		}
		has, err := t.module.GetAttributeValue(s, object, []*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_EC_PARAMS, nil), pkcs11.NewAttribute(pkcs11.CKA_EC_POINT, nil)})
		if err == nil {
			public, err = readPoint(has[0].Value, has[1].Value)
		}
		return err
	})
	return public, err
}

// readPoint reads a public key. Tokens give the point as an octet string, and some of
// them without that around it.
func readPoint(parameters, point []byte) (crypto.PublicKey, error) {
	var inner []byte
	if rest, err := asn1.Unmarshal(point, &inner); err == nil && len(rest) == 0 {
		point = inner
	}
	if bytes.Equal(parameters, kinds[keys.ES256].parameters) {
		return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	}
	if len(point) != ed25519.PublicKeySize {
		return nil, errors.New("the key is neither Ed25519 nor on P-256")
	}
	return ed25519.PublicKey(point), nil
}

// Sign implements [keys.Store].
func (t *hsm) Sign(ctx context.Context, key, algorithm string, message []byte) (signature []byte, err error) {
	k, ok := kinds[algorithm]
	if !ok {
		return nil, fmt.Errorf("keys do not sign by %q", algorithm)
	}
	err = t.with(ctx, func(s pkcs11.SessionHandle) error {
		object, err := t.find(s, pkcs11.CKO_PRIVATE_KEY, key)
		if err == nil {
			err = t.module.SignInit(s, []*pkcs11.Mechanism{pkcs11.NewMechanism(k.sign, nil)}, object)
		}
		if err == nil {
			signature, err = t.module.Sign(s, message)
		}
		return err
	})
	return signature, err
}
