package credential

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/powerbox-project/powerbox/internal/sorting"
)

// forms are the ways in which an agent may write a secret: as it is, in JSON, in a URL and
// in base64, longest first. An agent that hides it on purpose has it anyway.
type forms [][]byte

func formsOf(secret string) forms {
	all := []string{secret, url.QueryEscape(secret), url.PathEscape(secret)}
	if text, err := json.Marshal(secret); err == nil {
		all = append(all, strings.Trim(string(text), `"`))
	}
	// In base64 a text has three forms, by its place in the encoded bytes. The ends depend on
	// the neighbours and are left out.
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			text := encoding.EncodeToString(append(make([]byte, before), secret...))
			first := (before*8 + 5) / 6
			last := (before + len(secret)) * 8 / 6
			if last-first >= minSecret {
				all = append(all, text[first:last])
			}
		}
	}
	sorting.Sort(all, func(a, b string) int { return len(b) - len(a) })
	var out forms
	for _, text := range slices.Compact(all) {
		out = append(out, []byte(text))
	}
	return out
}

// mask puts asterisks in place of every form. The length stays, and with it frames and
// announced lengths.
func (f forms) mask(text []byte) {
	for _, form := range f {
		for rest := text; ; {
			at := bytes.Index(rest, form)
			if at < 0 {
				break
			}
			for n := range form {
				rest[at+n] = '*'
			}
			rest = rest[at+len(form):]
		}
	}
}

// begun is how many bytes at the end of a text may be the beginning of a form.
func (f forms) begun(text []byte) int {
	longest := 0
	for _, form := range f {
		for n := min(len(form)-1, len(text)); n > longest; n-- {
			if text[len(text)-n] == form[0] && bytes.Equal(text[len(text)-n:], form[:n]) {
				longest = n
			}
		}
	}
	return longest
}

func (f forms) inHeader(h http.Header) {
	for name, values := range h {
		for i, value := range values {
			text := []byte(value)
			f.mask(text)
			values[i] = string(text)
		}
		if text := []byte(name); len(name) >= minSecret {
			if f.mask(text); string(text) != name {
				delete(h, name)
			}
		}
	}
}

// inError returns an error that does not have the secret.
func (f forms) inError(err error) error {
	text := []byte(err.Error())
	if f.mask(text); string(text) != err.Error() {
		return errors.New(string(text))
	}
	return err
}

// hiding masks a body as it comes. It holds back no more than a secret's length.
type hiding struct {
	io.ReadCloser
	forms forms
	atEnd func()
	buf   []byte
	ready int // bytes of buf that can go out
	err   error
	chunk [8 << 10]byte
}

func (f forms) reader(body io.ReadCloser, atEnd func()) io.ReadCloser {
	if body == nil || body == http.NoBody {
		atEnd()
		return body
	}
	return &hiding{ReadCloser: body, forms: f, atEnd: atEnd}
}

// Read implements [io.Reader].
func (h *hiding) Read(p []byte) (int, error) {
	for h.ready == 0 {
		if h.err != nil {
			return 0, h.err
		}
		n, err := h.ReadCloser.Read(h.chunk[:])
		h.buf, h.err = append(h.buf, h.chunk[:n]...), err
		h.forms.mask(h.buf)
		h.ready = len(h.buf)
		if err == nil {
			h.ready -= h.forms.begun(h.buf)
			continue
		}
		h.err = h.forms.inError(err)
		h.atEnd()
	}
	n := copy(p, h.buf[:h.ready])
	h.buf, h.ready = append(h.buf[:0], h.buf[n:]...), h.ready-n
	return n, nil
}

// Writer masks a secret in its output, such as the errors of a program that has the secret.
func Writer(to io.Writer, secret string) io.Writer {
	return &writing{to: to, forms: formsOf(secret)}
}

type writing struct {
	mu    sync.Mutex
	to    io.Writer
	forms forms
	buf   []byte
}

// Write implements [io.Writer]. What may be the beginning of the secret waits for the rest.
func (w *writing) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = append(w.buf, p...)
	w.forms.mask(w.buf)
	ready := len(w.buf) - w.forms.begun(w.buf)
	_, err := w.to.Write(w.buf[:ready])
	w.buf = append(w.buf[:0], w.buf[ready:]...)
	return len(p), err
}
