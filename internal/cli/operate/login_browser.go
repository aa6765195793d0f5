package operate

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/oauth2"

	"github.com/powerbox-project/powerbox/internal/cli"
)

const (
	// loginTime is how long a person has to log in.
	loginTime = 10 * time.Minute
	// callbackPath is where the provider sends the browser, at a loopback address.
	callbackPath = "/callback"
)

// callback is what came back through the browser.
type callback struct {
	code string
	err  error
}

// byBrowser logs in by authorization code with PKCE, and a redirect to a loopback address
// (RFC 8252).
func byBrowser(ctx context.Context, p *cli.Program, c *oauth2.Config, l cli.LoginInfo, open bool) (answer *oauth2.Token, nonce string, err error) {
	if err := safeForLogin(c.Endpoint.AuthURL); err != nil {
		return nil, "", err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", fmt.Errorf("no port for the browser to come back to: %w; use --device", err)
	}
	c.RedirectURL = "http://" + listener.Addr().String() + callbackPath
	verifier, state, nonce := oauth2.GenerateVerifier(), rand.Text(), rand.Text()
	came := make(chan callback, 1)
	server := &http.Server{Handler: backFromBrowser(state, l.Issuer, came), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // until it is closed
	defer func() { _ = server.Close() }()
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("nonce", nonce)}
	if l.MaxAge > 0 {
		options = append(options, oauth2.SetAuthURLParam("max_age", strconv.Itoa(l.MaxAge)))
	}
	address := c.AuthCodeURL(state, options...)
	cli.Printf(p.Stderr, "open this URL in a browser on this machine and log in:\n  %s\n", address)
	if open {
		openBrowser(ctx, p, address)
	}
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	select {
	case <-ctx.Done():
		return nil, "", fmt.Errorf("not logged in: %w; use --device if the browser is on another machine", ctx.Err())
	case back := <-came:
		if back.err != nil {
			return nil, "", fmt.Errorf("not logged in: %w", back.err)
		}
		if answer, err = c.Exchange(ctx, back.code, oauth2.VerifierOption(verifier)); err != nil {
			return nil, "", fmt.Errorf("not logged in: %w", err)
		}
		return answer, nonce, nil
	}
}

// backFromBrowser takes the provider's answer of this login, once. Any page can send a browser
// here: what does not have the state of this login changes nothing.
func backFromBrowser(state, issuer string, came chan<- callback) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+callbackPath, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Referrer-Policy", "no-referrer")
		q := r.URL.Query()
		if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 {
			http.Error(w, "This is not the answer to the login that powerbox login waits for.", http.StatusBadRequest)
			return
		}
		back := read(q, issuer)
		select {
		case came <- back:
		default:
			http.Error(w, "This login is over.", http.StatusBadRequest)
			return
		}
		if back.err != nil {
			cli.Printf(w, "You are not logged in. The terminal says why.\n")
			return
		}
		cli.Printf(w, "Go back to the terminal. You can close this page.\n")
	})
	return mux
}

// read reads the provider's answer. One that names another issuer is of a mix-up (RFC 9207).
func read(q url.Values, issuer string) callback {
	switch {
	case q.Get("iss") != "" && q.Get("iss") != issuer:
		return callback{err: errors.New("the answer is of another identity provider")}
	case q.Get("error") != "":
		return callback{err: fmt.Errorf("the identity provider says %q", q.Get("error"))}
	case q.Get("code") == "":
		return callback{err: errors.New("the identity provider's answer has no code")}
	}
	return callback{code: q.Get("code")}
}

// openBrowser opens a URL, if the machine has a program for that. The URL is printed too.
func openBrowser(ctx context.Context, p *cli.Program, address string) {
	name, arguments := p.Env("BROWSER"), []string{address}
	switch {
	case name != "":
	case runtime.GOOS == "darwin":
		name = "open"
	case runtime.GOOS == "windows":
		name, arguments = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	default:
		name = "xdg-open"
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), name, arguments...) //nolint:gosec // the user's own browser
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }() // a browser that fails has nothing to tell: the URL is on the screen
	}
}
