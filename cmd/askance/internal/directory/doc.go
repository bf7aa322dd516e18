// Package directory reads who is in which group, and with which keys approvers
// sign, from files and from a NATS key-value bucket:
//
//	version: 1
//	groups:
//	  finance: [ann, bob]
//	approvers:
//	  ann: {keys: ["ed25519:…"]}
//
// Files are read strictly: an unknown key or a name without a meaning refuses
// the whole file. [Live] looks at them again and again; what cannot be read
// changes nothing, and the last good state stays. Somebody who is taken out of a
// group stays out: there is no state between two good ones.
package directory
