package embed

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/askance-dev/askance/bus"

	"github.com/nats-io/nats-server/v2/server"
)

// storeLimit is how large a store may become: by default what it uses plus three
// quarters of the free space. A restart at the limit must not lower the limit.
func storeLimit(o Options) (int64, error) {
	free, known := freeDisk(o.StoreDir)
	if o.MaxStore > 0 || !known {
		return o.MaxStore, nil
	}
	used, err := bytesIn(filepath.Join(o.StoreDir, "jetstream"))
	if err != nil {
		return 0, unwritable(o.StoreDir, err)
	}
	return max(1, used+free/4*3), nil
}

// bytesIn adds up the files of a folder; 0 if it is not there.
func bytesIn(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return sum, err
}

// Room is how much may still be stored: what the limit of the store leaves, and
// no more than the disk has.
func (s *Server) Room() bus.Room {
	info, err := s.now().Jsz(&server.JSzOptions{})
	if err != nil || info.Disabled {
		return bus.Room{} // not known
	}
	r := bus.Room{Free: info.Config.MaxStore - int64(info.Store), Bound: info.Config.MaxStore}
	if free, known := freeDisk(s.opts.StoreDir); known {
		r.Free = min(r.Free, free)
	}
	return r
}
