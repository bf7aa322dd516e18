package executortest_test

import (
	"testing"

	"github.com/askance-dev/askance/executor/executortest"
)

func TestLocal(t *testing.T)  { executortest.Run(t, executortest.Local) }
func TestRemote(t *testing.T) { executortest.Run(t, executortest.Remote) }
