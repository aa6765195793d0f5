package approval

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
)

// TestErrorsDoNotNameTheURL: a webhook's URL may be a secret, and net/http puts it around
// its errors.
func TestErrorsDoNotNameTheURL(t *testing.T) {
	err := unnamed(fmt.Errorf("post: %w", &url.Error{Op: "Post", URL: "https://hooks.example/s3cret", Err: errors.New("refused")}))
	if strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("it says %q", err)
	}
}

// TestMailNeedsSTARTTLS: a mail server that does not offer it gets no message.
func TestMailNeedsSTARTTLS(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "220 plain\r\n")
			for in := bufio.NewScanner(c); in.Scan(); {
				if fmt.Fprint(c, "250 plain\r\n"); strings.HasPrefix(in.Text(), "QUIT") {
					break
				}
			}
			_ = c.Close()
		}
	}()
	m := &Mail{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, From: "powerbox@example.org"}
	c, err := m.client()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.DialWithContext(t.Context()); err == nil || !strings.Contains(err.Error(), "STARTTLS") {
		t.Errorf("a server without STARTTLS: %v", err)
	}
}
