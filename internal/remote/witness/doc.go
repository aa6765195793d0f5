// Package witness is both ends of C2SP tlog-witness (EXT-35). [Book] and
// [Handler] are a witness: it keeps, of each log that it knows, the checkpoint
// that it has cosigned last, and cosigns only what continues from there. [Asker] is
// the side of the log: it asks witnesses to cosign, and finds by their answers
// that its own store was rolled back (ATK-43) or forked (ATK-44).
//
// The laws of a witness:
//
//  1. Before a cosignature leaves, what it is about is on the disk.
//  2. It never cosigns two checkpoints of a log of which one is not the beginning
//     of the other, whatever it is killed in the middle of.
//  3. A witness that has lost what it kept does not start: it would cosign
//     anything again.
package witness
