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
