package outbound_test

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/powerbox-project/powerbox/internal/outbound"
)

// TestATK55_WhatNobodyReads reads what the gateway says of HTTP/2 when it begins: how much
// of one answer it takes in that its caller does not read. Connections are everybody's.
func TestATK55_WhatNobodyReads(t *testing.T) {
	model := httptest.NewUnstartedServer(http.NotFoundHandler())
	model.StartTLS()
	defer model.Close()
	c := outbound.New(outbound.Policy{AllowLoopback: true, TLS: model.Client().Transport.(*http.Transport).TLSClientConfig})
	for name, transport := range map[string]*http.Transport{"calls": c.Transport(), "gRPC": c.HTTP2(), "calls of their own": c.Fresh()} {
		config := model.TLS.Clone()
		config.NextProtos = []string{"h2"}
		listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
		if err != nil {
			t.Fatal(err)
		}
		window := make(chan uint32, 1)
		go func() {
			defer close(window)
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }() // it has said what it has to
			if settings, err := settingsOf(conn); err == nil {
				window <- settings[initialWindow]
			}
		}()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+listener.Addr().String(), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := transport.RoundTrip(r); err == nil {
			_ = answer.Body.Close()
		}
		if got, ok := <-window; !ok || got == 0 || got > 1<<20 {
			t.Errorf("ATK-55 %s: a window of %d bytes", name, got)
		}
		_ = listener.Close()
	}
}

// initialWindow is SETTINGS_INITIAL_WINDOW_SIZE (RFC 9113, section 6.5.2).
const initialWindow = 4

// settingsOf reads the preface of a client of HTTP/2, and its first frame.
func settingsOf(conn net.Conn) (map[uint16]uint32, error) {
	var begin [24 + 9]byte
	if _, err := io.ReadFull(conn, begin[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, int(begin[24])<<16|int(begin[25])<<8|int(begin[26]))
	if _, err := io.ReadFull(conn, frame); err != nil {
		return nil, err
	}
	settings := map[uint16]uint32{}
	for ; len(frame) >= 6; frame = frame[6:] {
		settings[binary.BigEndian.Uint16(frame)] = binary.BigEndian.Uint32(frame[2:])
	}
	return settings, nil
}
