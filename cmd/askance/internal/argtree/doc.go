// Package argtree lays JSON out as a tree that a person can read and decide on:
// a member on a line, its name on the left, its value on the right.
//
//	order_id      "A-1042"
//	amount_cents  19900
//	customer
//	  name        "Ann"
//	  tags        2 items
//	    1         "vip"
//	    2         "true"
//	note          3 lines
//	              │ first
//	              │ second
//	              │ third
//
// Members keep the order of the input, numbers their digits, and text that is
// not what it seems becomes visible (package reveal). Long values go on in the
// column of values, never in that of names, so that no value can pretend to be
// a member. What is no JSON is shown as it came.
package argtree
