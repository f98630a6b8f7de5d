"""What can be computed about how a page looks and what assistive software hears of it."""

from __future__ import annotations

from typing import Any

# Contrast of every piece of text that is seen against the colour behind it, as the guidelines for accessible pages
# define it; gives the worst ones. Large text may have 3, everything else must have 4.5; we want 4.5 everywhere.
_CONTRAST = """
() => {
  const parse = (text) => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return { rgb: found.slice(0, 3), alpha: found.length > 3 ? found[3] : 1 };
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const { rgb, alpha } = parse(getComputedStyle(at).backgroundColor);
      if (alpha === 1) return rgb;
      if (alpha > 0) throw new Error("a background that is half transparent");
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const [text, element] = [walker.currentNode.textContent.trim(), walker.currentNode.parentElement];
    if (!text || !element.checkVisibility() || element.closest(".unseen, .skip")) continue;
    const style = getComputedStyle(element);
    const ink = element.namespaceURI.endsWith("svg") ? style.fill : style.color;
    const [one, two] = [light(parse(ink).rgb), light(behind(element))].sort((a, b) => b - a);
    found.push([(one + 0.05) / (two + 0.05), text.slice(0, 40), element.className || element.tagName]);
  }
  return found.sort((a, b) => a[0] - b[0]);
}
"""
_NAMED = (
    "button",
    "link",
    "textbox",
    "progressbar",
    "region",
    "table",
    "navigation",
    "img",
    "image",
    "form",
    "heading",
)


def contrasts(page: Any) -> list[tuple[float, str, str]]:
    """Contrast, text and place of everything that is read on a page, the worst first."""
    return [tuple(each) for each in page.evaluate(_CONTRAST)]


def sideways(page: Any) -> int:
    """By how many pixels a page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def heard(page: Any) -> list[tuple[str, str]]:
    """Role and name of everything in the accessibility tree."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    return [
        (node["role"]["value"], node.get("name", {}).get("value", "").strip()) for node in nodes if not node["ignored"]
    ]


def nameless(page: Any) -> list[tuple[str, str]]:
    """Controls, landmarks, tables and pictures that assistive software could not name."""
    return [(role, name) for role, name in heard(page) if role in _NAMED and not name]
