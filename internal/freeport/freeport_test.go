package freeport

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// asks is the environment variable that makes this test binary another process that
// asks for addresses, and keeps them until its input ends.
const asks = "POWERBOX_TEST_ASKS_FOR_PORTS"

func TestMain(m *testing.M) {
	if os.Getenv(asks) == "" {
		os.Exit(m.Run())
	}
	for range 1000 {
		address, err := Lasting()
		if err != nil {
			panic(err)
		}
		_, _ = os.Stdout.WriteString(address + "\n")
	}
	_, _ = os.Stdout.WriteString("all\n")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// No test gets a port that another has, here or in another process, nor one on
// which another program listens. A released port is given again.
func TestAnAddressIsOnesAlone(t *testing.T) {
	other := exec.CommandContext(t.Context(), os.Args[0])
	other.Env = append(os.Environ(), asks+"=1")
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	var theirs strings.Builder
	for piece := make([]byte, 1<<16); !strings.HasSuffix(theirs.String(), "all\n"); {
		n, err := out.Read(piece)
		if theirs.Write(piece[:n]); err != nil {
			t.Fatal(err)
		}
	}
	taken := map[string]bool{}
	for address := range strings.Lines(theirs.String()) {
		taken[strings.TrimSpace(address)] = true
	}
	l, err := net.Listen("tcp", Address(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	taken[l.Addr().String()] = true
	// As many as there are twice over, of which few are left at any time.
	for range 4 {
		t.Run("a test", func(t *testing.T) {
			ours := map[string]bool{}
			for range 2500 {
				address := Address(t)
				if taken[address] || ours[address] {
					t.Fatalf("%s is given twice", address)
				}
				ours[address] = true
			}
		})
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := other.Wait(); err != nil {
		t.Fatal(err)
	}
}
