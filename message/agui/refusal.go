package agui

// CodeCancelled is the code of the RUN_ERROR that tells a peer before 1.0 of a
// run that was stopped on purpose. AG-UI leaves the codes open.
const CodeCancelled = "cancelled"
