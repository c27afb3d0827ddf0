/** The pages of Studio, as the navigation and the palette have them. */

export const PAGES = [
  { to: "/inbox", name: "Inbox" },
  { to: "/runs", name: "Runs" },
] as const;
