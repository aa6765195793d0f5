// Package spiffe has the trust bundles of SPIFFE trust domains, from files and from the
// Workload API, and verifies X.509-SVIDs by them.
//
// What it holds to:
//
//   - An SVID is believed by the bundle of its own trust domain alone.
//   - A bundle that was replaced counts for the next request, on open connections too.
//   - Without a bundle nothing is believed: where the file is missing, where the Workload
//     API no longer has the trust domain or refuses this process, and an hour after the
//     Workload API was last reached.
package spiffe
