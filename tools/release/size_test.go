package main

import (
	"testing"
	"time"
)

// megabyte is that of ls -lh and of docker.
const megabyte = 1 << 20

// The programs of a release stay small. A build from the same sources with the same toolchain
// has the same size on every machine. A limit that is reached names the cause by
// go tool nm -size -sort size, of a build without -s (docs/assurance/performance.md).
func TestProgramsStaySmall(t *testing.T) {
	limits := map[string]int{"powerbox": 57*megabyte + 3*megabyte/8, "powerbox-gateway": 25 * megabyte}
	r := &release{root: "../..", commit: "none", date: time.Unix(1_790_000_000, 0).UTC()}
	for _, program := range programs {
		data, err := r.build(t.Context(), linux, program)
		if err != nil {
			t.Fatal(err)
		}
		if limit := limits[program]; len(data) > limit {
			t.Errorf("%s has %d bytes; want at most %d", program, len(data), limit)
		}
	}
}
