// Command powerbox-awskms keeps signing keys in AWS KMS. Region and credentials come from
// where the SDK finds them: the environment, a profile, or the machine's role.
package main

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/powerbox-project/powerbox/integrations/keys"
)

func main() {
	endpoint := flag.String("endpoint", "", "`URL` of KMS, if it is not that of the region")
	keys.Main(func() error { return run(*endpoint) })
}

func run(endpoint string) error {
	ctx := context.Background()
	c, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	client := kms.NewFromConfig(c, func(o *kms.Options) {
		if endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
	})
	return keys.Serve(ctx, os.Stdin, os.Stdout, store{client})
}

type store struct{ client *kms.Client }

// maxMessage is what KMS signs of a message at the most. By ES256 it gets a digest.
const maxMessage = 4096

// Algorithms implements [keys.Store].
func (store) Algorithms() []string { return []string{keys.Ed25519, keys.ES256} }

// Create implements [keys.Store]. The reference of a key is its ARN.
func (s store) Create(ctx context.Context, name, algorithm string) (string, error) {
	spec, ok := map[string]types.KeySpec{keys.Ed25519: types.KeySpecEccNistEdwards25519, keys.ES256: types.KeySpecEccNistP256}[algorithm]
	if !ok {
		return "", fmt.Errorf("keys are not made for %q", algorithm)
	}
	made, err := s.client.CreateKey(ctx, &kms.CreateKeyInput{
		KeySpec: spec, KeyUsage: types.KeyUsageTypeSignVerify, Description: aws.String("powerbox " + name),
		Tags: []types.Tag{{TagKey: aws.String("powerbox"), TagValue: aws.String(name)}},
	})
	if err != nil {
		return "", err
	}
	return aws.ToString(made.KeyMetadata.Arn), nil
}

// Public implements [keys.Store].
func (s store) Public(ctx context.Context, key string) (crypto.PublicKey, error) {
	has, err := s.client.GetPublicKey(ctx, &kms.GetPublicKeyInput{KeyId: aws.String(key)})
	if err != nil {
		return nil, err
	}
	return x509.ParsePKIXPublicKey(has.PublicKey)
}

// Sign implements [keys.Store].
func (s store) Sign(ctx context.Context, key, algorithm string, message []byte) ([]byte, error) {
	in := &kms.SignInput{KeyId: aws.String(key), Message: message, MessageType: types.MessageTypeDigest, SigningAlgorithm: types.SigningAlgorithmSpecEcdsaSha256}
	if algorithm == keys.Ed25519 {
		if len(message) > maxMessage {
			return nil, errors.New("KMS signs at most 4096 bytes by Ed25519; keep this key in a file, or in a key of ES256")
		}
		in.MessageType, in.SigningAlgorithm = types.MessageTypeRaw, types.SigningAlgorithmSpecEd25519Sha512
	}
	signed, err := s.client.Sign(ctx, in)
	if err != nil || algorithm == keys.Ed25519 {
		return signedBytes(signed), err
	}
	return keys.Raw(signed.Signature)
}

func signedBytes(out *kms.SignOutput) []byte {
	if out == nil {
		return nil
	}
	return out.Signature
}
