package v1

// The rows of the table in doc.go that are told to Codec.OnLoss.
const (
	rowOnlyV1    = 1
	rowFile      = 2
	rowOutput    = 3
	rowMediaType = 4
	rowURL       = 5
	rowExtra     = 6
	rowUnknown   = 7
	rowRawInput  = 8
	rowResults   = 9
	rowSystem    = 10
	rowReserved  = 11
	rowMsgFields = 20
	rowBlock     = 21
	rowResult    = 23
	rowRunning   = 24
	rowHint      = 25
	rowData      = 26
	rowInput     = 27
)

// RowCallState is the row of what FromMsgs puts into metadata.askance.
const RowCallState = 22
