package remote

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/powerbox-project/powerbox/internal/remote/feed"
)

// CheckFeeds reports a URL at which no feed can be followed.
func CheckFeeds(urls []string) error {
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
			return fmt.Errorf("%q is no place where a feed is followed; want an http or https URL without user name", text)
		}
	}
	return nil
}

// Relayed are the places where a feed is followed, with the token for them.
func Relayed(urls []string, tokenFile string) ([]feed.Relayed, error) {
	token := ""
	if tokenFile != "" {
		data, err := os.ReadFile(tokenFile)
		if err != nil {
			return nil, fmt.Errorf("token of the feed: %w", err)
		}
		token = string(bytes.TrimSpace(data))
	}
	out := make([]feed.Relayed, len(urls))
	for n, text := range urls {
		out[n] = feed.Relayed{URL: strings.TrimSuffix(text, "/")}
		if token != "" {
			out[n].Authorize = func(r *http.Request) error {
				r.Header.Set("Authorization", "Bearer "+token)
				return nil
			}
		}
	}
	return out, nil
}
