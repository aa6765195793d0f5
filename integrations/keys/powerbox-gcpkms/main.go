// Command powerbox-gcpkms keeps signing keys in a key ring of Google Cloud KMS. Credentials
// come from where the SDK finds them.
package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"time"

	kms "cloud.google.com/go/kms/apiv1"
	"cloud.google.com/go/kms/apiv1/kmspb"
	"google.golang.org/api/option"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/powerbox-project/powerbox/integrations/keys"
)

func main() {
	ring := flag.String("key-ring", "", "`name` of the key ring: projects/P/locations/L/keyRings/R")
	hsm := flag.Bool("hsm", true, "make keys in hardware (protection level HSM)")
	keys.Main(func() error { return run(*ring, *hsm) })
}

func run(ring string, hsm bool, options ...option.ClientOption) error {
	if ring == "" {
		return errors.New("want --key-ring projects/P/locations/L/keyRings/R")
	}
	ctx := context.Background()
	client, err := kms.NewKeyManagementRESTClient(ctx, options...)
	if err != nil {
		return err
	}
	return keys.Serve(ctx, os.Stdin, os.Stdout, store{client, ring, hsm})
}

type store struct {
	client *kms.KeyManagementClient
	ring   string
	hsm    bool
}

// Algorithms implements [keys.Store].
func (store) Algorithms() []string { return []string{keys.Ed25519, keys.ES256} }

// Create implements [keys.Store]. The reference of a key is the name of its first version.
func (s store) Create(ctx context.Context, name, algorithm string) (string, error) {
	by, ok := map[string]kmspb.CryptoKeyVersion_CryptoKeyVersionAlgorithm{
		keys.Ed25519: kmspb.CryptoKeyVersion_EC_SIGN_ED25519, keys.ES256: kmspb.CryptoKeyVersion_EC_SIGN_P256_SHA256,
	}[algorithm]
	if !ok {
		return "", fmt.Errorf("keys are not made for %q", algorithm)
	}
	level := kmspb.ProtectionLevel_SOFTWARE
	if s.hsm {
		level = kmspb.ProtectionLevel_HSM
	}
	random := make([]byte, 6)
	_, _ = rand.Read(random) // never fails
	made, err := s.client.CreateCryptoKey(ctx, &kmspb.CreateCryptoKeyRequest{
		Parent: s.ring, CryptoKeyId: "powerbox-" + name + "-" + hex.EncodeToString(random),
		CryptoKey: &kmspb.CryptoKey{Purpose: kmspb.CryptoKey_ASYMMETRIC_SIGN, VersionTemplate: &kmspb.CryptoKeyVersionTemplate{Algorithm: by, ProtectionLevel: level}},
	})
	if err != nil {
		return "", err
	}
	version := made.GetName() + "/cryptoKeyVersions/1"
	return version, s.await(ctx, version)
}

// await waits until a key is made.
func (s store) await(ctx context.Context, version string) error {
	for {
		v, err := s.client.GetCryptoKeyVersion(ctx, &kmspb.GetCryptoKeyVersionRequest{Name: version})
		if err != nil || v.GetState() != kmspb.CryptoKeyVersion_PENDING_GENERATION {
			return err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Public implements [keys.Store].
func (s store) Public(ctx context.Context, key string) (crypto.PublicKey, error) {
	has, err := s.client.GetPublicKey(ctx, &kmspb.GetPublicKeyRequest{Name: key})
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode([]byte(has.GetPem()))
	if block == nil {
		return nil, errors.New("the public key is not in PEM form")
	}
	return x509.ParsePKIXPublicKey(block.Bytes)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(b []byte) *wrapperspb.Int64Value {
	return wrapperspb.Int64(int64(crc32.Checksum(b, castagnoli)))
}

// Sign implements [keys.Store].
func (s store) Sign(ctx context.Context, key, algorithm string, message []byte) ([]byte, error) {
	in := &kmspb.AsymmetricSignRequest{Name: key}
	if algorithm == keys.Ed25519 {
		in.Data, in.DataCrc32C = message, sum(message)
	} else {
		in.Digest, in.DigestCrc32C = &kmspb.Digest{Digest: &kmspb.Digest_Sha256{Sha256: message}}, sum(message)
	}
	signed, err := s.client.AsymmetricSign(ctx, in)
	if err != nil {
		return nil, err
	}
	if algorithm == keys.Ed25519 {
		return signed.GetSignature(), nil
	}
	return keys.Raw(signed.GetSignature())
}
