package store

import (
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"strings"
)

// What upstream wrote of a video is mostly in other columns of its row: its texts, once or
// twice. Compressed with these as the dictionary it takes a tenth.

// usual is what every video has as upstream writes it. It is a part of the format: raise
// version when you change it.
const usual = `{"kind":"youtube#video","etag":"","id":"","snippet":{"publishedAt":"2026-01-01T00:00:00Z","channelId":"UC","title":"","description":"",` +
	`"thumbnails":{"default":{"url":"https://i.ytimg.com/vi//default.jpg","width":120,"height":90},"medium":{"url":"https://i.ytimg.com/vi//mqdefault.jpg","width":320,"height":180},` +
	`"high":{"url":"https://i.ytimg.com/vi//hqdefault.jpg","width":480,"height":360},"standard":{"url":"https://i.ytimg.com/vi//sddefault.jpg","width":640,"height":480},` +
	`"maxres":{"url":"https://i.ytimg.com/vi//maxresdefault.jpg","width":1280,"height":720}},"channelTitle":"","tags":["",""],"categoryId":"10","liveBroadcastContent":"none",` +
	`"defaultLanguage":"en","localized":{"title":"","description":""},"defaultAudioLanguage":"en-US"},"contentDetails":{"duration":"PT3M30S","dimension":"2d","definition":"hd",` +
	`"caption":"false","licensedContent":true,"contentRating":{},"projection":"rectangular"},"statistics":{"viewCount":"","likeCount":"","favoriteCount":"0","commentCount":""}}`

// textsOf is what of a video's row its raw form is compressed with.
func textsOf(title, channel, tags, description string) string {
	return strings.Join([]string{title, channel, tags, description}, "\n")
}

// A packer compresses what upstream wrote of a video. Its writer is used again, because one
// costs a millisecond to make. The zero value is ready to use.
type packer struct {
	packed bytes.Buffer
	writer *flate.Writer
}

// pack writes the texts first, and returns what comes after them: so the texts extend the
// dictionary.
func (p *packer) pack(raw, texts string) (packed []byte, err error) {
	if p.writer == nil {
		if p.writer, err = flate.NewWriterDict(&p.packed, flate.DefaultCompression, []byte(usual)); err != nil {
			return nil, err
		}
	}
	p.packed.Reset()
	p.writer.Reset(&p.packed)
	_, err = io.WriteString(p.writer, texts)
	err = errors.Join(err, p.writer.Flush())
	p.packed.Reset()
	_, failed := io.WriteString(p.writer, raw)
	err = errors.Join(err, failed, p.writer.Close())
	return bytes.Clone(p.packed.Bytes()), err
}

func unpack(packed []byte, texts string) ([]byte, error) {
	return io.ReadAll(flate.NewReaderDict(bytes.NewReader(packed), []byte(usual+texts)))
}
