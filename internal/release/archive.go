package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"time"
)

// archive makes the one that people unpack: a zip for Windows, else a tar. All is in one
// directory of its name.
func (r *release) archive(t *target, files []file) error {
	name := r.name(t)
	var inDir []file
	for _, f := range files {
		f.path = name + "/" + f.path
		inDir = append(inDir, f)
	}
	if t.os == "windows" {
		b, err := zipped(inDir, r.time)
		if err != nil {
			return err
		}
		return r.write(name+".zip", b)
	}
	b, err := tarred(inDir, r.time)
	if err != nil {
		return err
	}
	return r.write(name+".tar.gz", b)
}

// tarred returns a tar.gz of files, which are root's and of one time.
func tarred(files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Size: int64(len(f.content)), Mode: f.mode, ModTime: at}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	err = z.Close()
	return b.Bytes(), err
}

// zipped returns a zip of files of one time.
func zipped(files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		to, err := w.CreateHeader(&zip.FileHeader{Name: f.path, Method: zip.Deflate, Modified: at})
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// gzipped returns a file that is compressed, as manual pages are in packages.
func gzipped(content []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = io.Copy(z, bytes.NewReader(content))
	}
	if err == nil {
		err = z.Close()
	}
	return b.Bytes(), err
}
