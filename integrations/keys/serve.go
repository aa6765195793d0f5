// Package keys is the side of a program in the protocol by which a server or gateway of
// Powerbox has its signing keys kept elsewhere (docs/how-to/keys.md). Each folder below is
// such a program: one file about one kind of place.
package keys

import (
	"bufio"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// The algorithms of keys.
const (
	Ed25519 = "Ed25519"
	ES256   = "ES256"
)

// Store makes keys and signs. Its methods can be called by many goroutines.
type Store interface {
	// Algorithms returns the algorithms of the keys that it can make.
	Algorithms() []string
	// Create makes a key, and returns the reference by which it is known from then on.
	// The name is for people.
	Create(ctx context.Context, name, algorithm string) (key string, err error)
	// Public returns the public half: ed25519.PublicKey or *ecdsa.PublicKey.
	Public(ctx context.Context, key string) (crypto.PublicKey, error)
	// Sign signs a message by Ed25519, and by ES256 the digest that message is. It returns
	// 64 bytes.
	Sign(ctx context.Context, key, algorithm string, message []byte) ([]byte, error)
}

// Bounds of the protocol.
const (
	maxLine  = 1 << 20
	together = 64               // requests that are worked on at once
	patience = 30 * time.Second // for one request
)

type request struct {
	ID        uint64 `json:"id"`
	Op        string `json:"op"`
	Version   int    `json:"version"`
	Name      string `json:"name"`
	Key       string `json:"key"`
	Algorithm string `json:"algorithm"`
	Message   string `json:"message"`
}

type answer struct {
	ID         uint64            `json:"id"`
	Error      string            `json:"error,omitempty"`
	Algorithms []string          `json:"algorithms,omitempty"`
	Key        string            `json:"key,omitempty"`
	Public     map[string]string `json:"public,omitempty"`
	Signature  string            `json:"signature,omitempty"`
}

// Main parses the command line, runs a program and exits. The errors of run are for people.
func Main(run func() error) {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
}

// Serve answers requests until the end of in.
func Serve(ctx context.Context, in io.Reader, out io.Writer, s Store) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 4<<10), maxLine)
	var working sync.WaitGroup
	var writing sync.Mutex
	places := make(chan struct{}, together)
	for lines.Scan() {
		var q request
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return fmt.Errorf("a request is not JSON: %w", err)
		}
		places <- struct{}{}
		working.Go(func() {
			defer func() { <-places }()
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			a, err := do(ctx, s, q)
			if err != nil {
				a = answer{Error: err.Error()}
			}
			a.ID = q.ID
			line, _ := json.Marshal(a) // it holds texts alone
			writing.Lock()
			defer writing.Unlock()
			_, _ = out.Write(append(line, '\n')) // if the server stops reading, the input ends too
		})
	}
	working.Wait()
	return lines.Err()
}

func do(ctx context.Context, s Store, q request) (a answer, err error) {
	switch q.Op {
	case "hello":
		if q.Version != 1 {
			return a, fmt.Errorf("version %d of the protocol; want 1", q.Version)
		}
		return answer{Algorithms: s.Algorithms()}, nil
	case "create":
		if a.Key, err = s.Create(ctx, q.Name, q.Algorithm); err == nil {
			a.Public, err = public(ctx, s, a.Key)
		}
		return a, err
	case "public":
		a.Public, err = public(ctx, s, q.Key)
		return a, err
	case "sign":
		message, err := base64.RawURLEncoding.DecodeString(q.Message)
		if err != nil {
			return a, errors.New("the message is not base64url")
		}
		signature, err := s.Sign(ctx, q.Key, q.Algorithm, message)
		return answer{Signature: base64.RawURLEncoding.EncodeToString(signature)}, err
	}
	return a, fmt.Errorf("there is no operation %q", q.Op)
}

// public is the JWK of a public key.
func public(ctx context.Context, s Store, key string) (map[string]string, error) {
	p, err := s.Public(ctx, key)
	if err != nil {
		return nil, err
	}
	encode := base64.RawURLEncoding.EncodeToString
	switch p := p.(type) {
	case ed25519.PublicKey:
		return map[string]string{"kty": "OKP", "crv": "Ed25519", "x": encode(p)}, nil
	case *ecdsa.PublicKey:
		point, err := p.Bytes()
		if err != nil || len(point) != 65 {
			return nil, errors.New("the key is not on P-256")
		}
		return map[string]string{"kty": "EC", "crv": "P-256", "x": encode(point[1:33]), "y": encode(point[33:])}, nil
	}
	return nil, fmt.Errorf("a key of %T; want Ed25519 or P-256", p)
}

// Raw turns the ASN.1 form of an ECDSA signature on P-256 into its 64 bytes.
func Raw(der []byte) ([]byte, error) {
	var parts struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &parts); err != nil || parts.R.BitLen() > 256 || parts.S.BitLen() > 256 {
		return nil, errors.New("the signature is not one of ECDSA on P-256")
	}
	raw := make([]byte, 64)
	parts.R.FillBytes(raw[:32])
	parts.S.FillBytes(raw[32:])
	return raw, nil
}
