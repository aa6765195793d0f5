package evidence

import _ "embed"

//go:embed verify.mjs
var javaScript string

// JavaScript returns verify.mjs, the second implementation of [Verify] and
// [VerifyRecord] (EXT-26): one file of plain JavaScript with no dependency, for
// Node 20 or newer and for browsers. It gives the same verdicts, kinds, lines and
// record ids; an algorithm that its platform lacks is the further verdict
// unverifiable, and never ok.
func JavaScript() string { return javaScript }
