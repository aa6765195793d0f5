package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/powerbox-project/powerbox/internal/peer"
)

// formats are the forms that a text may have to have.
var formats = map[string]func(string) error{
	"address":   checkAddress,
	"url":       checkURL,
	"origin":    checkOrigin,
	"id":        checkID,
	"grant":     checkName,
	"operation": checkName,
	"log":       checkLog,
	"digest":    checkDigest,
	"network":   checkNetwork,
	"domain":    checkDomain,
}

// patterns are those forms that a regular expression says, for the schema.
var patterns = map[string]string{
	"url":       `^https?://`,
	"origin":    `^https?://.*[^/]$`,
	"id":        ids.pattern,
	"grant":     names.pattern,
	"operation": names.pattern,
	"log":       logs.pattern,
	"digest":    digests.pattern,
}

// form is a form of short texts: how many bytes they have, and which. A regular expression that
// counts is compiled to thousands of steps at each start of the program, so it is for the schema alone.
type form struct {
	pattern     string
	least, most int
	has         func(byte) bool
}

var (
	ids     = form{`^[a-z0-9-]{1,64}$`, 1, 64, func(c byte) bool { return lower(c) || digit(c) || c == '-' }}
	names   = form{`^[!-.0-~]{1,128}$`, 1, 128, func(c byte) bool { return printable(c) && c != '/' }}
	digests = form{`^[A-Za-z0-9_-]{43}$`, 43, 43, func(c byte) bool { return letter(c) || digit(c) || c == '_' || c == '-' }}
	logs    = form{`^[!-*,-~]{1,256}$`, 1, 256, func(c byte) bool { return printable(c) && c != '+' }}
)

// fits reports whether a text is of the form.
func (f form) fits(s string) bool {
	for i := range len(s) {
		if !f.has(s[i]) {
			return false
		}
	}
	return len(s) >= f.least && len(s) <= f.most
}

func lower(c byte) bool     { return 'a' <= c && c <= 'z' }
func letter(c byte) bool    { return lower(c) || 'A' <= c && c <= 'Z' }
func digit(c byte) bool     { return '0' <= c && c <= '9' }
func printable(c byte) bool { return '!' <= c && c <= '~' }

func checkAddress(s string) error {
	_, port, err := net.SplitHostPort(s)
	if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q is not an address; want host:port such as 127.0.0.1:8700", s)
	}
	return nil
}

func checkURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("is not an absolute http or https URL; want one such as https://host/path")
	case u.User != nil:
		return errors.New("carries a user name; want a URL without")
	case u.Fragment != "":
		return errors.New("has a fragment; want a URL without")
	}
	return nil
}

func checkOrigin(s string) error {
	if err := checkURL(s); err != nil {
		return err
	}
	if strings.HasSuffix(s, "/") || strings.Contains(s, "?") {
		return fmt.Errorf("%q ends in a slash or has a query; want one such as https://host or https://host/path", s)
	}
	return nil
}

// checkDigest is for texts that are compared with a digest: another text would match no caller, and the
// caller a stranger without anybody being told.
func checkDigest(s string) error {
	if !digests.fits(s) {
		return fmt.Errorf("%q is not a SHA-256 digest; want its 43 characters of base64url, as powerbox keys new prints them for a key", s)
	}
	return nil
}

func checkNetwork(s string) error {
	_, err := peer.ParseNetwork(s)
	return err
}

func checkID(s string) error {
	if !ids.fits(s) {
		return fmt.Errorf("%q is not a name; want 1 to 64 of a-z, 0-9 and '-'", s)
	}
	return nil
}

func checkName(s string) error {
	switch {
	case strings.HasPrefix(s, "a2a."):
		return fmt.Errorf("%q begins with a2a., which is reserved for the protocol's own operations", s)
	case strings.Contains(s, "/"):
		return fmt.Errorf("%q contains '/', which joins agent, grant and operation; want a name without", s)
	case s == "*" || !names.fits(s):
		return fmt.Errorf("%q is not a name; want 1 to 128 printable ASCII characters without spaces", s)
	}
	return nil
}

func checkLog(s string) error {
	if !logs.fits(s) {
		return fmt.Errorf("%q is not the name of a log; want one such as example.org/powerbox, without spaces and '+'", s)
	}
	return nil
}
