// Package evidence makes the record of a decision, which a stranger can
// verify with files and public keys alone, on a machine without this product.
// It takes bytes, keys and time; it opens no file, no socket and no database.
//
// The laws:
//
//  1. No evidence, no effect. A record that cannot be written stops the action
//     (EXT-27, [ErrNotWritten]).
//  2. The hashed bytes are the stored bytes. The canonical bytes (RFC 8785 behind a
//     strict I-JSON gate) are stored and hashed, never made again from a parsed
//     row (EXT-22).
//  3. Nothing is changed afterwards. An outcome that is known later is a second
//     record that names the first (EXT-25, [Outcome]).
//  4. A chain belongs to one agent and one recorder, begins at 64 zeros, has no
//     gap, and is a chain as the A2A extension document, section 7,
//     describes it.
//  5. A chain alone proves nothing about its end. Every record is one leaf of a
//     Merkle tree (RFC 6962), and only a signed checkpoint of that tree says
//     how much there was (EXT-24, EXT-35).
//  6. Two leaves with one chain and sequence prove a fork to anybody, without a
//     body being shown.
//  7. Keys come from the verifier, never from the bundle. A key that was
//     not pinned makes the verdict fail (EXT-26).
//
// The way of a record: [Seal] makes it from a [Head] and a [Record]; [Leaf] and
// [Grow] put it in the tree; [SignCheckpoint] signs the tree; [WriteBundle]
// exports; [Verify] checks an export and names everything that is wrong. One record
// alone goes with a [Proof] and is checked by [VerifyRecord].
//
// Anyone who holds a signing key and the store can write a whole history anew. A
// checkpoint that someone else has kept ([Trust.Seen]) is what makes that
// visible.
//
// # Batches
//
// A record's hash covers the record before it, so a signature over the last record
// of a chain covers all of them. With evidence.signatures: batch the store signs
// only the last record of each chain in a commit. The record says so inside its hash
// (powerbox.signatures), so a record whose signature was removed is not one of a
// batch. The verifier decides whether that suffices, by batches in its trust file. A
// record that is handed out alone is covered by the checkpoint.
//
// # Second verifier
//
// verify.mjs is a second, independent implementation in one file of JavaScript
// without dependencies, embedded by [JavaScript]. An auditor trusts neither the
// server nor the binary, and Node or a browser is everywhere. It shares no code with
// Go and has its own JSON reader, because JSON.parse takes the last of two members
// and rounds numbers. Both give the same verdicts, kinds, lines and ids, and tests
// compare them. An algorithm that the platform lacks is unverifiable, a third
// verdict. Where the two could only agree by imitating an accident of Go, Go was
// made strict.
package evidence
