package jobwatch

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"unicode"
)

// geElement is an element of an answer in XML. Versions wrap their lists in different
// elements, so elements are found by name at any depth.
type geElement struct {
	name, text string
	state      string // the attribute of that name
	item       string // the attribute "name"
	children   []*geElement
}

// parseXML reads an answer. After an error it returns what was read before.
func parseXML(out string) (*geElement, error) {
	root := &geElement{}
	open := []*geElement{root}
	decoder := xml.NewDecoder(strings.NewReader(cleanXML(out)))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) && len(root.children) > 0 {
			return root, nil
		}
		if err != nil {
			return root, err
		}
		top := open[len(open)-1]
		switch t := token.(type) {
		case xml.StartElement:
			e := &geElement{name: t.Name.Local}
			for _, a := range t.Attr {
				switch a.Name.Local {
				case "state":
					e.state = a.Value
				case "name":
					e.item = a.Value
				}
			}
			top.children = append(top.children, e)
			open = append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			top.text += string(t)
		}
	}
}

// cleanXML replaces what XML does not allow, and Grid Engine prints as it is: other encodings
// and control characters in names and variables.
func cleanXML(out string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(out, "?"))
}

// all are the elements of that name, at any depth.
func (e *geElement) all(name string) []*geElement {
	var found []*geElement
	for _, c := range e.children {
		if c.name == name {
			found = append(found, c)
		}
		found = append(found, c.all(name)...)
	}
	return found
}

// value is the text of the first element of that name, at any depth.
func (e *geElement) value(name string) string {
	if found := e.all(name); len(found) > 0 {
		return strings.TrimSpace(found[0].text)
	}
	return ""
}

// child is the text of the element of that name directly in this one.
func (e *geElement) child(name string) string {
	for _, c := range e.children {
		if c.name == name {
			return strings.TrimSpace(c.text)
		}
	}
	return ""
}
