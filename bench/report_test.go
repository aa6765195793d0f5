package main

import "testing"

func TestTheSectionOfTheSoakIsKeptAndReplaced(t *testing.T) {
	page := "# A\n\n" + soakEnds + "\n- a peer\n"
	if soakOf(page) != "" {
		t.Error("there is none")
	}
	once := withSoak(page, "first\n")
	if want := soakBegins + "first\n\n"; soakOf(once) != want {
		t.Errorf("%q", soakOf(once))
	}
	if twice := withSoak(once, "second\n"); twice != "# A\n\n"+soakBegins+"second\n\n"+soakEnds+"\n- a peer\n" {
		t.Errorf("%q", twice)
	}
}

// A table that is measured anew keeps the sections of bench/console and bench/hostile.
func TestHostileSectionIsKept(t *testing.T) {
	const console, hostile = consoleBegins + "pages\n\n", hostileBegins + "rows\n\n"
	page := "# A\n\n" + console + hostile + soakBegins + "times\n\n" + soakEnds
	if got := hostileOf(page); got != hostile {
		t.Errorf("%q; want %q", got, hostile)
	}
	if got := sizeOf(page + sizeBegins + "sizes\n"); got != sizeBegins+"sizes\n" || sizeOf(page) != "" {
		t.Errorf("the section about sizes: %q", got)
	}
	if got := whyOf("# A\n\n" + whyBegins + "reasons\n\n" + whyEnds); got != whyBegins+"reasons\n\n" {
		t.Errorf("what people say of the numbers: %q", got)
	}
	if got := consoleOf(page); got != console {
		t.Errorf("%q; want %q", got, console)
	}
	if got := hostileOf("# A\n\n" + soakBegins + "times\n\n" + soakEnds); got != "" {
		t.Errorf("%q of a page without the section", got)
	}
}
