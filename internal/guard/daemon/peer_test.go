package daemon

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// The daemon answers a connection of its own user alone, as the kernel names it.
func TestDaemonAnswersNoOtherUser(t *testing.T) {
	dir, err := os.MkdirTemp("", "pb") //nolint:usetesting // that of the test is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for uid, answers := range map[int]bool{os.Getuid(): true, os.Getuid() + 1: false} {
		client, err := (&net.Dialer{}).DialContext(t.Context(), "unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Write([]byte(`{"do":"nothing"}`)); err != nil {
			t.Fatal(err)
		}
		handle(t.Context(), nil, Socket{UID: uid}, server, func() {})
		got, _ := io.ReadAll(client) // a reset is no answer either
		if (len(got) > 0) != answers {
			t.Errorf("a daemon of user %d answers %q", uid, got)
		}
		_ = client.Close()
	}
}
