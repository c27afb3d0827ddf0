import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [react()],
  base: "./", // the server says in <base> under which path it is reached
  build: {
    outDir: "../src/signoff/server/static",
    emptyOutDir: true,
    target: "es2023",
    assetsInlineLimit: 0, // the page's policy allows no data: URLs
    modulePreload: { polyfill: false }, // its script would stand in the page itself
  },
  server: { proxy: { "/v1": "http://127.0.0.1:8000" } },
});
