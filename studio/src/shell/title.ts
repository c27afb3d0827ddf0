/** The tab's title and icon: the number of waiting questions, before the page's title. */

import { useEffect } from "react";
import plain from "../icon.svg?url&no-inline";
import waiting from "../icon-waiting.svg?url&no-inline";

let badge = "";
let before = "";

function show(): void {
  const name = document.title.startsWith(before) ? document.title.slice(before.length) : document.title;
  before = badge === "" ? "" : `(${badge}) `;
  if (document.title !== before + name) document.title = before + name;
  const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]");
  const wanted = new URL(badge === "" ? plain : waiting, document.baseURI).href;
  if (icon !== null && icon.href !== wanted) icon.href = wanted;
}

/** Show how many wait, such as `12` or `200+`, before any page's title; nothing if none do. */
export function useBadge(count: string): void {
  useEffect(() => {
    badge = count;
    show();
  }, [count]);
  useEffect(() => {
    const named = new MutationObserver(show);
    named.observe(document.head, { subtree: true, childList: true, characterData: true });
    return () => named.disconnect();
  }, []);
}
