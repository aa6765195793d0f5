package serve

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestWhatIsTunedIsTheOperatorsFirst: settings of the environment stay, and restore
// undoes the others.
func TestWhatIsTunedIsTheOperatorsFirst(t *testing.T) {
	runtime.SetDefaultGOMAXPROCS()
	processors, percent := runtime.GOMAXPROCS(0), debug.SetGCPercent(100)
	defer debug.SetGCPercent(percent)
	said := map[string]string{"GOMAXPROCS": "1", "GOGC": "100"}
	for _, name := range []string{"", "GOMAXPROCS", "GOGC"} {
		restore := Tune(func(asked string) string {
			if asked == name {
				return said[name]
			}
			return ""
		})
		wantProcessors, wantPercent := processors, 100
		if name != "GOMAXPROCS" && processors == runtime.NumCPU() {
			wantProcessors += diskThreads
		}
		if name != "GOGC" {
			wantPercent = gcPercent
		}
		if got := runtime.GOMAXPROCS(0); got != wantProcessors {
			t.Errorf("with %q set, %d processors; want %d", name, got, wantProcessors)
		}
		if got := debug.SetGCPercent(wantPercent); got != wantPercent {
			t.Errorf("with %q set, GOGC is %d; want %d", name, got, wantPercent)
		}
		restore()
		if got := runtime.GOMAXPROCS(0); got != processors {
			t.Errorf("afterwards %d processors; want %d", got, processors)
		}
		if got := debug.SetGCPercent(100); got != 100 {
			t.Errorf("afterwards GOGC is %d; want 100", got)
		}
	}
}
