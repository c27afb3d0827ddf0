/** The tab's title and icon: which page it is, and how many questions wait for whoever looks. */

import { useEffect } from "react";
import plain from "../icon.svg?url&no-inline";
import waiting from "../icon-waiting.svg?url&no-inline";

let title = "Signoff";
let badge = "";

function show(): void {
  document.title = badge === "" ? title : `(${badge}) ${title}`;
  const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]");
  const wanted = new URL(badge === "" ? plain : waiting, document.baseURI).href;
  if (icon !== null && icon.href !== wanted) icon.href = wanted;
}

/** Say which page this is. */
export function useTitle(text: string): void {
  useEffect(() => {
    title = text;
    show();
  }, [text]);
}

/** Say how many wait, such as `12` or `200+`; nothing if none do. */
export function useBadge(count: string): void {
  useEffect(() => {
    badge = count;
    show();
  }, [count]);
}
