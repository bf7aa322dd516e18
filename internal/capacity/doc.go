// Package capacity divides what a server can do at once: between classes of
// operations, and within a class between the principals that send requests.
//
// Reading a long list must never delay a decision, and new proposals never a
// response or a result, so each class has limits of its own. One principal can use at most half of each limit, and principals
// with waiting requests take turns. A request beyond a limit is refused at
// once: no caller of this package ever blocks on a full class.
package capacity
