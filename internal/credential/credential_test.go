package credential_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/credential"
)

const canary = `canary-4711/"+x&<secret>`

// roundTrip sends a request through the way of a credential, and returns every byte that
// came back.
func roundTrip(t *testing.T, p *credential.Placed, next http.RoundTripper, r *http.Request) (string, *http.Response, error) {
	t.Helper()
	response, err := p.Transport(next, "pw_person").RoundTrip(r)
	if err != nil {
		return err.Error(), nil, err
	}
	// The smallest reads there are, and whole ones, must hide the same.
	body, err := io.ReadAll(iotest.OneByteReader(response.Body))
	if err != nil {
		return err.Error(), nil, err
	}
	var all bytes.Buffer
	_ = response.Header.Write(&all)
	all.Write(body)
	_ = response.Trailer.Write(&all)
	fmt.Fprintf(&all, "%v %v", response.Request.Header, response.Request.URL)
	return all.String(), response, nil
}

func request(t *testing.T, address, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func static(text string) credential.Source { return credential.Static{Text: config.NewSecret(text)} }

// TestEchoedSecretNeverComesBack has an agent write the secret into headers, body and
// trailers, as it is and encoded, in every cut.
func TestEchoedSecretNeverComesBack(t *testing.T) {
	text, _ := json.Marshal(canary)
	forms := []string{canary, url.QueryEscape(canary), url.PathEscape(canary), strings.Trim(string(text), `"`)}
	for n := range 3 {
		forms = append(forms, base64.StdEncoding.EncodeToString([]byte("abc"[:n]+canary+"tail")), base64.RawURLEncoding.EncodeToString([]byte("abc"[:n]+canary)))
	}
	body := strings.Join(forms, " and ")
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+canary {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Trailer", "X-Told")
		w.Header().Set("X-Echo", "it is "+r.Header.Get("Authorization"))
		w.Header().Set("Www-Authenticate", `Bearer error="`+canary+`"`)
		_, _ = io.WriteString(w, body)
		w.Header().Set("X-Told", canary)
	}))
	t.Cleanup(agent.Close)
	p := &credential.Placed{Source: static(canary), Header: "Authorization", Scheme: "Bearer"}
	all, response, err := roundTrip(t, p, http.DefaultTransport, request(t, agent.URL, "hello"))
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%v %s", err, all)
	}
	for _, form := range forms {
		// The ends of base64 belong to the neighbours.
		if middle := form[4 : len(form)-8]; strings.Contains(all, middle) {
			t.Errorf("the caller gets %q in %s", middle, all)
		}
	}
	if !strings.Contains(all, "and *") || response.ContentLength >= 0 && response.ContentLength != int64(len(body)) {
		t.Errorf("the rest of the answer is not as it was: %s", all)
	}
}

// TestAnswersWithoutTheSecretStayAsTheyAre compares every byte, also of those that begin
// like the secret.
func TestAnswersWithoutTheSecretStayAsTheyAre(t *testing.T) {
	body := strings.Repeat("canary-471 canary-47", 1000) + "canary"
	next := func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
	response, err := (&credential.Placed{Source: static(canary), Header: "X-Key"}).Transport(transport(next), "").RoundTrip(request(t, "http://a", ""))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(response.Body); err != nil || string(got) != body {
		t.Errorf("%v: %d bytes; want %d", err, len(got), len(body))
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestCallerCannotSendAnotherSecret has a caller send the header in several spellings, and
// the parameter.
func TestCallerCannotSendAnotherSecret(t *testing.T) {
	var got *http.Request
	next := transport(func(r *http.Request) (*http.Response, error) {
		got = r
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}, nil
	})
	r := request(t, "http://a/?x=1&API_key=evil&api%5Fkey=evil&y=%2F", "")
	r.Header = http.Header{"X-Api-Key": {"evil", "evil2"}, "x_api_key": {"evil"}, "X-Api_Key": {"evil"}, "Other": {"stays"}}
	if _, _, err := roundTrip(t, &credential.Placed{Source: static("the-operators-key"), Header: "X-Api-Key"}, next, r); err != nil {
		t.Fatal(err)
	}
	if len(got.Header) != 2 || len(got.Header["X-Api-Key"]) != 1 || got.Header.Get("X-Api-Key") != "the-operators-key" || got.Header.Get("Other") != "stays" {
		t.Errorf("the agent gets %v", got.Header)
	}
	if _, _, err := roundTrip(t, &credential.Placed{Source: static("the-operators-key"), Query: "api_key"}, next, r); err != nil {
		t.Fatal(err)
	}
	if got.URL.RawQuery != "x=1&y=%2F&api_key=the-operators-key" || strings.Contains(r.URL.RawQuery, "operators") {
		t.Errorf("the agent gets %s", got.URL.RawQuery)
	}
}

// rotating returns the next of its secrets whenever one is refused.
type rotating struct {
	mu      sync.Mutex
	secrets []string
	asked   int
}

func (r *rotating) Secret(_ context.Context, _ string, refused config.Secret) (config.Secret, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if refused.Reveal() == r.secrets[0] && len(r.secrets) > 1 {
		r.secrets = r.secrets[1:]
	}
	return config.NewSecret(r.secrets[0]), nil
}

// TestRefusedSecretIsReplacedOnce sends the same body again with another secret, once.
func TestRefusedSecretIsReplacedOnce(t *testing.T) {
	var bodies []string
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		if r.Header.Get("X-Key") != "the third key" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, "your key is "+r.Header.Get("X-Key"))
		}
	}))
	t.Cleanup(agent.Close)
	for secrets, want := range map[string]error{"another key,the third key": nil, "first key,another key,the third key": credential.ErrRefused, "another key": credential.ErrRefused} {
		bodies = nil
		source := &rotating{secrets: strings.Split(secrets, ",")}
		all, _, err := roundTrip(t, &credential.Placed{Source: source, Header: "X-Key"}, http.DefaultTransport, request(t, agent.URL, "body"))
		if !errors.Is(err, want) || strings.Contains(all, "another key") {
			t.Errorf("%s: %v %s", secrets, err, all)
		}
		if sent := min(2, len(strings.Split(secrets, ","))); len(bodies) != sent || bodies[0] != "body" || bodies[sent-1] != "body" || source.asked != 2 {
			t.Errorf("%s: the agent got %q, %d secrets were asked for", secrets, bodies, source.asked)
		}
	}
}

// TestUnusableAnswersAreErrors has a packed answer, in which nothing can be found, a refusal
// in gRPC, and an error with the secret in it.
func TestUnusableAnswersAreErrors(t *testing.T) {
	p := &credential.Placed{Source: static(canary), Header: "X-Key"}
	answers := map[string]transport{
		"packs its answers": func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Encoding": {"gzip"}}, Body: http.NoBody}, nil
		},
		credential.ErrRefused.Error(): func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{"Grpc-Status": {"16"}}, Body: http.NoBody}, nil
		},
		"dial with ***": func(r *http.Request) (*http.Response, error) {
			return nil, errors.New("dial with " + r.Header.Get("X-Key"))
		},
	}
	for want, next := range answers {
		if all, _, err := roundTrip(t, p, next, request(t, "http://a", "")); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(all, canary) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	for _, text := range []string{"short", "", "a line\nand another", "nicht nur ASCII ü"} {
		if _, _, err := roundTrip(t, &credential.Placed{Source: static(text), Header: "X-Key"}, nil, request(t, "http://a", "")); !errors.Is(err, credential.ErrUnavailable) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestTokensAreGotOnce has many calls wait for one token, and another one got before the
// end of the first.
func TestTokensAreGotOnce(t *testing.T) {
	var got atomic.Int64
	now := time.Unix(1000, 0)
	release := make(chan struct{})
	k := &credential.Kept{Now: func() time.Time { return now }, Get: func(context.Context, string) (credential.Got, error) {
		<-release
		return credential.Got{Secret: config.NewSecret(fmt.Sprintf("token %d", got.Add(1))), Until: now.Add(time.Minute)}, nil
	}}
	ask := func() string {
		s, err := k.Secret(t.Context(), "a", config.Secret{})
		if err != nil {
			t.Error(err)
		}
		return s.Reveal()
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if ask() != "token 1" {
				t.Error("a call has another token")
			}
		})
	}
	close(release)
	all.Wait()
	now = now.Add(29 * time.Second)
	if ask() != "token 1" {
		t.Error("a token was replaced too early")
	}
	now = now.Add(time.Second)
	if ask() != "token 2" {
		t.Error("a token is used up to its end")
	}
	if s, err := k.Secret(t.Context(), "a", config.NewSecret("token 2")); err != nil || s.Reveal() != "token 3" {
		t.Errorf("a refused token is used again: %v", err)
	}
}

// TestFailingSourceIsNotAskedByEveryCall bounds what a token endpoint that is down gets.
func TestFailingSourceIsNotAskedByEveryCall(t *testing.T) {
	asked, now := 0, time.Unix(1000, 0)
	k := &credential.Kept{Now: func() time.Time { return now }, Get: func(context.Context, string) (credential.Got, error) {
		asked++
		return credential.Got{}, errors.New("down")
	}}
	for range 10 {
		if _, err := k.Secret(t.Context(), "a", config.Secret{}); err == nil {
			t.Error("there is a secret")
		}
	}
	now = now.Add(time.Second)
	_, _ = k.Secret(t.Context(), "a", config.Secret{})
	if asked != 2 {
		t.Errorf("it was asked %d times; want 2", asked)
	}
}

// TestVaultAndFileAreReadAgain replaces a secret where it is kept.
func TestVaultAndFileAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := credential.File(write("secret", "the first secret\n"))
	if s, err := file.Secret(t.Context(), "", config.Secret{}); err != nil || s.Reveal() != "the first secret" {
		t.Errorf("%v", err)
	}
	write("secret", "the second secret")
	if s, err := file.Secret(t.Context(), "", config.Secret{}); err != nil || s.Reveal() != "the second secret" {
		t.Errorf("%v", err)
	}
	value := "the first value"
	vault := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != "/v1/kv/data/agents/a%20b" || r.Header.Get("X-Vault-Token") != "token-of-vault" || r.Header.Get("X-Vault-Namespace") != "team" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"data": map[string]any{"key": value}, "metadata": map[string]any{"version": 3}}})
	}))
	t.Cleanup(vault.Close)
	k := &credential.Kept{Now: func() time.Time { return time.Unix(1000, 0) }, Get: credential.Vault{Address: vault.URL, Mount: "kv", Path: "agents/a b", Field: "key", Namespace: "team", TokenFile: write("token", "token-of-vault\n"), Client: http.DefaultClient}.Get}
	first, err := k.Secret(t.Context(), "", config.Secret{})
	if err != nil || first.Reveal() != value {
		t.Fatalf("%v", err)
	}
	value = "the second value"
	if again, err := k.Secret(t.Context(), "", config.Secret{}); err != nil || again != first {
		t.Errorf("it is read for every call: %v", err)
	}
	if next, err := k.Secret(t.Context(), "", first); err != nil || next.Reveal() != value {
		t.Errorf("a refused secret is not read again: %v", err)
	}
}

// TestWrittenSecretIsMasked has a program write its secret in pieces.
func TestWrittenSecretIsMasked(t *testing.T) {
	var log bytes.Buffer
	w := credential.Writer(&log, canary)
	for _, piece := range []string{"key: " + canary[:5], canary[5:9], canary[9:] + "\n", canary + "."} {
		if n, err := io.WriteString(w, piece); n != len(piece) || err != nil {
			t.Fatalf("%d %v", n, err)
		}
	}
	if stars := strings.Repeat("*", len(canary)); log.String() != "key: "+stars+"\n"+stars+"." {
		t.Errorf("%q", log.String())
	}
}
