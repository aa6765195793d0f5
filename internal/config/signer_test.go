package config_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/config"
)

const signerDocument = "../../docs/how-to/keys.md"

func loadSigner(text string) (*config.SignerFile, error) {
	return config.LoadSigner("dir/signer.yaml", func(string) ([]byte, error) { return []byte(text), nil })
}

// TestSignerTable holds the table of docs/how-to/keys.md to the settings: go test
// ./internal/config -update writes it.
func TestSignerTable(t *testing.T) {
	text, err := os.ReadFile(signerDocument)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := bytes.Cut(text, []byte("| key | type |"))
	_, after, ended := bytes.Cut(rest, []byte("\n\n"))
	if !found {
		t.Fatal("docs/how-to/keys.md has no table of keys")
	}
	next := bytes.Join([][]byte{before, config.SignerTable()}, nil)
	if ended {
		next = bytes.Join([][]byte{next, []byte("\n"), after}, nil)
	}
	next = append(bytes.TrimRight(next, "\n"), '\n')
	if *update {
		if err := os.WriteFile(signerDocument, next, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(text, next) {
		t.Errorf("the table of docs/how-to/keys.md is not up to date: go test ./internal/config -update")
	}
}

// TestSignerExamplesLoad loads every example of the page, and files that are wrong.
func TestSignerExamplesLoad(t *testing.T) {
	text, err := os.ReadFile(signerDocument)
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```yaml\n")[1:]
	for _, block := range blocks {
		example, _, _ := strings.Cut(block, "```")
		if _, err := loadSigner(example); err != nil {
			t.Errorf("%s: %v", example, err)
		}
	}
	if len(blocks) != 3 {
		t.Errorf("%d examples", len(blocks))
	}
	for text, want := range map[string]string{
		"timeout: 1s": "want exec or vault.address",
		`{exec: [a], vault: {address: "https://v", token_file: t}}`: "and not both",
		`{exec: [a], timeout: 1m}`:                                  "want 10ms to 30s",
		`{vault: {address: "http://v.example", token_file: t}}`:     "want https, or http on loopback",
		`{vault: {address: "https://v.example"}}`:                   "want the file with the token",
	} {
		if _, err := loadSigner(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q, got %v", text, want, err)
		}
	}
}

// TestCredentialsThatAreWrong has one error for each rule about a credential.
func TestCredentialsThatAreWrong(t *testing.T) {
	for text, want := range map[string]string{
		`{header: X-Key}`:                                                       "has no secret",
		`{file: a, env: B}`:                                                     "has file and env; want one of them",
		`{file: a, header: X-Key, query: key}`:                                  "beside a header",
		`{file: a, header: x-key}`:                                              "want X-Key",
		`{file: a, header: Content-Type}`:                                       "which the gateway sets itself",
		`{vault: {address: "http://v.example"}}`:                                "want https, or http on loopback",
		`{vault: {address: "https://v", path: a}}`:                              "vault.token_file: is missing",
		`{oauth: {token_url: "https://i", client_id: a}}`:                       "oauth.client_secret_file: is missing",
		`{oauth: {token_url: "https://i", client_id: a, grant: refresh_token}}`: "oauth.authorization_url: is missing",
	} {
		_, err := config.LoadCredential("dir/credential.yaml", func(string) ([]byte, error) { return []byte("credential: " + text), nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q, got %v", text, want, err)
		}
	}
	c, err := config.LoadCredential("dir/credential.yaml", func(string) ([]byte, error) { return []byte("credential: {file: token}"), nil })
	if err != nil {
		t.Fatal(err)
	}
	if header, scheme, query := c.Credential.Place(); header != "Authorization" || scheme != "Bearer" || query != "" || c.Credential.File != "dir/token" {
		t.Errorf("%+v", c)
	}
}
