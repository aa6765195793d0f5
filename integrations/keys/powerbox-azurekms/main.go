// Command powerbox-azurekms keeps signing keys in Azure Key Vault or Managed HSM. They have
// no Ed25519, so the keys are for ES256. Credentials come from where the SDK finds them.
package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azkeys"

	"github.com/powerbox-project/powerbox/integrations/keys"
)

func main() {
	vault := flag.String("vault", "", "`URL` of the key vault, such as https://NAME.vault.azure.net")
	hsm := flag.Bool("hsm", false, "make keys in hardware (EC-HSM)")
	keys.Main(func() error { return run(*vault, *hsm) })
}

func run(vault string, hsm bool) error {
	if vault == "" {
		return errors.New("want --vault URL")
	}
	credential, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return err
	}
	s, err := open(vault, hsm, credential, nil)
	if err != nil {
		return err
	}
	return keys.Serve(context.Background(), os.Stdin, os.Stdout, s)
}

func open(vault string, hsm bool, credential azcore.TokenCredential, options *azkeys.ClientOptions) (store, error) {
	client, err := azkeys.NewClient(vault, credential, options)
	return store{client, hsm}, err
}

type store struct {
	client *azkeys.Client
	hsm    bool
}

// Algorithms implements [keys.Store].
func (store) Algorithms() []string { return []string{keys.ES256} }

// Create implements [keys.Store]. The reference of a key is NAME/VERSION.
func (s store) Create(ctx context.Context, name, algorithm string) (string, error) {
	if algorithm != keys.ES256 {
		return "", fmt.Errorf("no keys for %q at Azure", algorithm)
	}
	kind := azkeys.KeyTypeEC
	if s.hsm {
		kind = azkeys.KeyTypeECHSM
	}
	random := make([]byte, 6)
	_, _ = rand.Read(random) // never fails
	made, err := s.client.CreateKey(ctx, "powerbox-"+name+"-"+hex.EncodeToString(random), azkeys.CreateKeyParameters{
		Kty: to.Ptr(kind), Curve: to.Ptr(azkeys.CurveNameP256), KeyOps: []*azkeys.KeyOperation{to.Ptr(azkeys.KeyOperationSign), to.Ptr(azkeys.KeyOperationVerify)},
	}, nil)
	if err != nil {
		return "", err
	}
	if made.Key == nil || made.Key.KID == nil {
		return "", errors.New("the answer names no key")
	}
	return made.Key.KID.Name() + "/" + made.Key.KID.Version(), nil
}

// Public implements [keys.Store].
func (s store) Public(ctx context.Context, key string) (crypto.PublicKey, error) {
	name, version, _ := strings.Cut(key, "/")
	has, err := s.client.GetKey(ctx, name, version, nil)
	if err != nil {
		return nil, err
	}
	if has.Key == nil || len(has.Key.X) > 32 || len(has.Key.Y) > 32 {
		return nil, errors.New("the key is not on P-256")
	}
	point := make([]byte, 65)
	point[0] = 4
	copy(point[33-len(has.Key.X):33], has.Key.X)
	copy(point[65-len(has.Key.Y):], has.Key.Y)
	return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
}

// Sign implements [keys.Store].
func (s store) Sign(ctx context.Context, key, algorithm string, message []byte) ([]byte, error) {
	if algorithm != keys.ES256 {
		return nil, fmt.Errorf("no signatures by %q at Azure", algorithm)
	}
	name, version, _ := strings.Cut(key, "/")
	signed, err := s.client.Sign(ctx, name, version, azkeys.SignParameters{Algorithm: to.Ptr(azkeys.SignatureAlgorithmES256), Value: message}, nil)
	return signed.Result, err
}
